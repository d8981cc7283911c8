"""Models of other libraries, read and written: one module a form."""
