"""Published measurements against the model: errors, what they hang on, and the refit of the numbers that are free.

`points` reads the list of measurements, `runs` simulates their commands, `sensitivity` moves the numbers of a card,
`solve` and `leave_out` fit them, `fitting` is `aicore-sim fit`, `validate` is `aicore-sim validate`, `report` and `plots`
write its files.
"""
