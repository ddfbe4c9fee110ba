"""The gateway: releases over HTTP and a web page, paid from a ledger."""
