"""The laboratory of dptext: five papers on private text, made sound, attacked and compared."""
