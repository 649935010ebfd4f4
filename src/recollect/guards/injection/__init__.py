"""Finding prompt injections: rules over word classes, a classifier, and how the two are weighed."""
