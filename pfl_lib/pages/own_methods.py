"""The part of a table's page that shows a user's own methods."""

from pfl_lib.pages.parameters import Settings


def show(page, profile, settings: Settings) -> None:
    """Show, where the page has methods of the user's, accuracy by round for each row of its tables,
    with a band over seeds, and the differences from the paper's methods; else nothing.
    """
    from pfl_lib.display import figures, spread, tables
    from pfl_lib.display.table_format import setting_words
    from pfl_lib.pages.notebook import say
    from pfl_lib.papers import own_methods

    for table in page.tables:
        if not table.own_columns:
            continue
        say("## Your methods beside the paper's")
        find = settings.store.find
        for place, results in own_methods.results_by_row(table, profile, find).items():
            rounds = {len(run.accuracy_by_round()) for runs in results.values() for run in runs}
            if max(rounds) > 1:  # of one round the dots above show all
                say(f"**{setting_words(place)}**: accuracy by round, yours in thick lines.")
                figures.show(*spread.accuracy_with_spread(results, own=table.own_columns))
        shown = own_methods.differences(table, profile, find)
        caption = "Your methods against the paper's, in points of accuracy, on common seeds"
        tables.show_table(shown, caption)


def sentence(page, profile, settings: Settings) -> str:
    """What a page's answer says of the user's methods, for each of its tables; nothing where the
    page has none.
    """
    from pfl_lib.papers import own_methods

    tables = (table for table in page.tables if table.own_columns)
    return "".join(
        f" {own_methods.in_a_sentence(table, profile, settings.store.find)}" for table in tables
    )
