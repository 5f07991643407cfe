"""
A queue as it is seen from elsewhere: from any clone of its hub (`hub`), or by its HTTP API (`server`).

By the hub, the queue's board says how entries stand, and a request about an entry is a blob pushed to where submissions
go, with the rights that submitting needs. The queue answers it on its board. `waiting` follows one entry to its end.

Why no approval, grant or pause by the hub: they let in what checks and scans would keep out, or stop everybody, and a
push says nothing of who has made it. They are given on the queue's host, or with the API's token.
"""
