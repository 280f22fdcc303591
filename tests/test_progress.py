from sklearn_ext._progress import track


def test_silent_by_default(capsys):
    items = [1, 2]
    assert track(items) is items
    assert capsys.readouterr() == ("", "")


def test_verbose_counts_on_standard_error(capsys):
    assert list(track(iter("abc"), total=3, desc="letters", verbose=1)) == list("abc")
    out, err = capsys.readouterr()
    assert out == ""
    assert "letters" in err
    assert "3/3" in err
