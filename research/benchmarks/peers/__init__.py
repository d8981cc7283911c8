"""Programs for interpreters without bert_tf, one per compared project."""
