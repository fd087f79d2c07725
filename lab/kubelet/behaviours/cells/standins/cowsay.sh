# cowsay: the text in a balloon; the cow is a line.
text=${*:-$(cat)}
line=$(printf '%s' "$text" | sed 's/./-/g')
printf ' %s\n< %s >\n %s\n        \\ (oo)____\n' "--$line" "$text" "--$line"
