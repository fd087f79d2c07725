"""What a call that came to nothing means to whoever typed a command: one sentence each."""

import os
import socket
import ssl

import aiohttp

from tiphys.models.domain import errors
from tiphys.operator import apis

UP = (
    "Is that cluster up (a lab: `python -m lab status`), and is it the one you mean (--kubeconfig, "
    "--context)?"
)


def words(error: errors.TiphysError, server: str) -> str:
    """Return what went wrong; `server` is the address of the API server that was asked."""
    if isinstance(error, apis.UnreachableError):
        if error.status:
            return f"the API server at {server} answers {error.status}: {error.said}. {UP}"
        return f"the API server at {server} does not answer ({silence(error.__cause__)}). {UP}"
    if isinstance(error, apis.ForbiddenError) and error.status == 401:
        return (
            f"the API server at {server} does not know you (401): log in again, or name another "
            "kubeconfig or context (--kubeconfig, --context)"
        )
    if isinstance(error, apis.ForbiddenError) and error.said:
        return f"not allowed: {error.said}"
    return str(error)


def silence(error: BaseException | None) -> str:
    """Return why nothing came from an address."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return "its certificate is not of the authority that the kubeconfig trusts"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return f"no TLS with it: {error}"
    if isinstance(error, TimeoutError):
        return "it said nothing in time"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return f"its name leads nowhere: {cause.strerror}"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return str(error or "") or type(error).__name__
