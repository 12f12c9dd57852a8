"""The sentences: runnable pipelines, their options and the command line."""
