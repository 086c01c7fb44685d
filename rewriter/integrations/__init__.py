"""seqmap as a part of other tools, in the form that each of them asks for."""
