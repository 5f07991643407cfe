"""The grammar of bash: scripts to tokens, words and a tree."""
