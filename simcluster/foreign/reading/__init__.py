"""Files of other tools as they are: flags, settings, references, shell scripts. None is executed."""
