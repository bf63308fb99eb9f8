# Completion for bash and zsh. It asks the command, so it knows the flags and settings of the one that is installed.
#
#   bash: source completion.bash, or install it as share/bash-completion/completions/trireme
#   zsh:  autoload -U compinit bashcompinit; compinit; bashcompinit; source completion.bash

# The first column of a command's list of commands.
_trireme_commands() { trireme "$@" --help 2> /dev/null | awk '/^  [a-z]/ {print $1}'; }

# Flags with their dashes, settings as --section.name=.
_trireme_options() {
  trireme "$@" --help 2> /dev/null | awk '
    /^  --[a-z_]+\.[a-z_.]+=/ {sub(/=.*/, "=", $1); print $1; next}
    /^  -/ {count = split($1, forms, ","); sub(/[^-a-z].*/, "", forms[count]); print forms[count]}'
}

# What a setting may be, where its help lists that.
_trireme_values() {
  local setting=$1
  shift
  trireme "$@" --help 2> /dev/null | awk -v setting="$setting=" '
    index($1, setting) == 1 {found = 1; if ($1 ~ /=(true|false)$/) print "true false"; next}
    found && $1 == "one" {sub(/^ *one of /, ""); gsub(/,/, ""); print}
    found {exit}'
}

_trireme() {
  local line=${COMP_LINE:0:$COMP_POINT} command=${COMP_WORDS[1]} part= has_parts= word replies=
  word=${line##* }
  case $command in inspect | bench | config) has_parts=yes part=${COMP_WORDS[2]} ;; esac
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    replies=$(_trireme_commands)
  elif [ "$COMP_CWORD" -eq 2 ] && [ "$has_parts" ]; then
    replies=$(_trireme_commands "$command")
  elif [ "${word#--*=}" != "$word" ]; then
    replies=$(_trireme_values "${word%%=*}" "$command" $part)
    # bash completes what stands behind the =, zsh the whole word.
    if [ -n "${ZSH_VERSION-}" ]; then
      replies=$(printf '%s' "$replies" | sed "s/[^ ][^ ]*/${word%%=*}=&/g")
    else
      word=${word#*=}
    fi
  elif [ "${word#-}" != "$word" ]; then
    replies=$(_trireme_options "$command" $part)
  fi
  COMPREPLY=($(compgen -W "$replies" -- "$word"))
  case ${COMPREPLY[*]} in
    *" "*) ;;
    *=) compopt -o nospace 2> /dev/null || true ;;
  esac
}
complete -o default -F _trireme trireme
