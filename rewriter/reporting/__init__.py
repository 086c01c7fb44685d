"""The report of a rewrite: its record, words, pictures, and the remedies it offers.

Start with `report`, the record; `render` writes it as text, `render_html` as a page, and
`tried_remedies` tries what it would advise.
"""
