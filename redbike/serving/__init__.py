"""The way to a server: connections, the embedded server, and whether a server is fit for use."""
