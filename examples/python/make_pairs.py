#!/usr/bin/env python3
"""Writes pairs of a source and a target for `model.family=seq2seq`, one a line, separated by a tab.

    python3 make_pairs.py dates 20000 > dates.tsv       # the second of march 1987 -> 1987-03-02
    python3 make_pairs.py reverse 5000 > reverse.tsv    # letters, and the same backwards

A function of the number of lines and --seed alone. No line is there twice, so that held-out pairs are new ones.
"""
import argparse
import random
import sys
from datetime import date

ONES = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
        "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
            "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}
MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december"]


def in_words(number):
    """1 to 99."""
    if number < 20:
        return ONES[number]
    return (TENS[number // 10] + " " + ONES[number % 10]).strip()


def ordinal(number):
    *before, last = in_words(number).split()
    return " ".join([*before, ORDINALS.get(last, last + "th")])


def year_in_words(year):
    if year % 1000 < 10:
        return (ONES[year // 1000] + " thousand " + ONES[year % 10]).strip()
    if year % 100 == 0:
        return in_words(year // 100) + " hundred"
    if year % 100 < 10:
        return in_words(year // 100) + " oh " + ONES[year % 10]
    return in_words(year // 100) + " " + in_words(year % 100)


def dates(dice):
    day = date.fromordinal(dice.randint(date(1800, 1, 1).toordinal(), date(2099, 12, 31).toordinal()))
    month, number, year = MONTHS[day.month - 1], ordinal(day.day), year_in_words(day.year)
    forms = (f"{month} {number} {year}", f"the {number} of {month} {year}", f"{month} {day.day} {day.year}",
             f"{day.day} {month[:3]} {day.year}")
    return dice.choice(forms), day.isoformat()


def reverse(dice):
    letters = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(1, 12)))
    return letters, letters[::-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["dates", "reverse"])
    parser.add_argument("lines", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    dice, seen = random.Random(arguments.seed), set()
    draw = {"dates": dates, "reverse": reverse}[arguments.kind]
    while len(seen) < arguments.lines:
        source, target = draw(dice)
        if source not in seen:
            seen.add(source)
            sys.stdout.write(f"{source}\t{target}\n")


if __name__ == "__main__":
    main()
