"""The gateway: privatizing over HTTP, and a web page, on the ledger."""
