"""Connect to a server, run the embedded server, and check whether a server is fit for use."""
