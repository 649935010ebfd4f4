"""What guards look for, without the pipeline around them: text in, findings out."""
