"""ER-AE: texts written again word by word."""
