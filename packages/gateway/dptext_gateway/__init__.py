"""The gateway of dptext: releases over HTTP."""
