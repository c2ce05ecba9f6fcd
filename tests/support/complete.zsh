# What scripts/completion/_limpid offers for the last of these words:  zsh -f complete.zsh chat --prec
# zsh completes in its line editor alone, so the functions that offer words there print them here.
words=(limpid "$@")
CURRENT=$#words
offer() { local word; for word; do [[ $word == ${words[CURRENT]}* ]] && print -r -- $word; done; true }
compadd() { offer "${@[2,-1]}" }
_describe() { offer "${(@)${(@P)2}%%:*}" }
_files() { offer *(N) }
_message() { : }
compset() { words[CURRENT]=${words[CURRENT]#*=} } # -P '*=': what is before the value is not offered
complete() { source scripts/completion/_limpid }
complete || true
