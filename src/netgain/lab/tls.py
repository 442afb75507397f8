"""Which certificates are trusted, the same for the load and for what is asked beside it."""

import ssl


def client_tls() -> ssl.SSLContext:
    """The system's authorities, or those in the files that SSL_CERT_FILE and SSL_CERT_DIR name."""
    return ssl.create_default_context()
