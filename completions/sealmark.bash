# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of sealmark for bash: commands and options from the program's own tables, else files.
_sealmark() {
	local cur=${COMP_WORDS[COMP_CWORD]} command='' word kind name option rest
	local -a found=()

	COMPREPLY=()
	# the words of the command: those before the first option
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		[[ $word != -* ]] || break
		command+=${command:+ }$word
	done
	while IFS=$'\t' read -r kind name option rest; do
		case $kind in
		command)
			# the next word of a command that begins so
			if [[ $cur != -* && "$name " == "${command:+$command }"* ]]; then
				rest=${name#"${command:+$command }"}
				[[ $name == "$command" ]] || found+=("${rest%% *}")
			fi
			;;
		option | common)
			[[ $cur == -* && "$command " == "$name "* ]] && found+=("$option")
			;;
		esac
	done < <("${COMP_WORDS[0]}" help --tables 2>/dev/null)
	mapfile -t COMPREPLY < <(compgen -W "${found[*]}" -- "$cur" | sort -u)
	[[ ${#COMPREPLY[@]} -gt 0 || $cur == -* ]] || mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
complete -o filenames -F _sealmark sealmark
