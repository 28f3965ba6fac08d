"""TLS that trusts nobody, for clients that speak plain HTTP to this machine."""

import ssl

# Without one each client of httpx reads all authorities of the machine, for 30 ms of processor.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
