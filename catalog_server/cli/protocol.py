"""The HTTP protocol with a bound on what a request's head may take in memory; uvicorn has none."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 256 * 1024


class BoundedHeads(HttpToolsProtocol):
    """Closes connections whose request line and headers do not come to an end."""

    _open_head_bytes: int | None = None
    """Bytes received since a head began that is not complete; None outside of heads."""

    def data_received(self, data: bytes) -> None:
        """Take bytes from the connection."""
        super().data_received(data)
        if self._open_head_bytes is None or self.transport.is_closing():
            return
        self._open_head_bytes += len(data)
        if self._open_head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("Request line and headers too large.")

    def on_message_begin(self) -> None:
        """A head begins."""
        self._open_head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._open_head_bytes = None
        super().on_headers_complete()
