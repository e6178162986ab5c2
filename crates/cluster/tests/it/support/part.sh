#!/bin/sh
# Stands for a part of a job in tests: standard input is the connection to the runner, which says
# `echo`, and gets back what follows, or `hold FILE`, and is not read until that file is there.
while read -r word path; do
    case $word in
        echo) exec cat >&0 ;;
        hold)
            while [ ! -e "$path" ]; do sleep 0.01; done
            exec cat >/dev/null
            ;;
    esac
done
