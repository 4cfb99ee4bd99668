"""What every layer may use: checks of input, files, progress, threads, warnings."""
