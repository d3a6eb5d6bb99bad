"""The pages have the tables of the rules."""

import rules_page
from rules_page import RULES


def test_the_pages_have_the_rules_and_their_rates():
    for path, text in rules_page.made():
        assert path.read_text() == text, "python tests/rules_page.py"


def test_each_rule_is_on_a_page():
    tables = rules_page.alerts_table() + rules_page.health_table()
    assert all(f"| `{kind}` |" in tables for kind in RULES)
