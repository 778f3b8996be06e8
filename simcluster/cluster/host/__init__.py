"""Hosts: devices, links and processors of a server, and the graph of places and routes inside it."""
