"""What the ``cluster:`` section and catalog files may say of devices, hosts, links, networks and changes."""
