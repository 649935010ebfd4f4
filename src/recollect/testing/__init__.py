"""What users and this project test with: the store contract, and databases to run it on."""
