"""The lab's command line: words in, words out; what they do lives in the other packages."""
