"""One file, one method to start a job."""
