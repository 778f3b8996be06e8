"""One file, one format of files that say which hosts and devices a job has."""
