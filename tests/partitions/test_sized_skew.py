"""Label skew over clients of different sizes: sizes by hand, nothing twice, what is refused."""

import torch

from pfl_lib import partitions
from pfl_lib.partitions import SizedSkew
from tests.common import refusal


def test_evenly_spread_labels_give_each_client_its_share_of_all_images(labelled):
    """20 clients have 2 * (3 + 2) * 2 = 20 parts of 3 and 2 in all 50 parts of each label: of 100
    images a part is 2, so 6 and 4 of each label.
    """
    made = partitions.make(SizedSkew("A", (3, 2)), labelled([100] * 10, [100] * 10))
    assert made.clients == 20 and made.sizes.tolist() == [60, 40] * 10
    assert [len(rows) for rows in made.test] == [100] * 20


def test_the_label_that_is_wanted_most_is_dealt_out_and_a_part_of_the_others_is_as_large(labelled):
    """Four labels each, four clients, sizes 3, 1, 1, 1.  Client i has labels -i to 3 - i: label 0
    is wanted by all (3 + 1 + 1 + 1 = 6 parts), labels 1 to 3 by 5, 4 and 3, labels 7 to 9 by 1, 2
    and 3.  Of 120 images a part is 20: client 0 has 60 of each of its labels, the others 20.
    """
    dataset = labelled([120] * 10, [8] * 10)
    made = partitions.make(SizedSkew("B", (3, 1, 1, 1)), dataset, 4)
    assert made.label_matrix(dataset).tolist() == [
        [60, 60, 60, 60, 0, 0, 0, 0, 0, 0],
        [20, 20, 20, 0, 0, 0, 0, 0, 0, 20],
        [20, 20, 0, 0, 0, 0, 0, 0, 20, 20],
        [20, 0, 0, 0, 0, 0, 0, 20, 20, 20],
    ]
    # A quarter of each label's 8 test images, whatever the size
    assert [len(rows) for rows in made.test] == [8] * 4


def test_parts_that_are_no_whole_numbers_differ_by_less_than_one_image_a_label(labelled):
    """Sizes 2, 1 and 1 of a label's 101 images: 50.5, 25.25 and 25.25."""
    made = partitions.make(SizedSkew("A", (2, 1, 1)), labelled([101] * 10, [10] * 10), 3)
    assert made.sizes.tolist() == [500, 250, 260]


def test_labels_and_test_sets_are_those_of_the_ten_client_recipe(labelled):
    dataset = labelled([200] * 10, [50] * 10)
    ten = partitions.make("C", dataset)
    made = partitions.make(SizedSkew("C", (1,)), dataset)
    for i in range(20):
        assert torch.equal(made.test[i], ten.test[i % 10])
        assert torch.equal(made.label_matrix(dataset)[i] > 0, ten.label_matrix(dataset)[i % 10] > 0)


def test_bad_settings_are_refused_in_one_line():
    for given, sentence in (
        (("A*", (1,)), "distribution 'A*' is not one of A, B, C"),
        (("A", ()), "sizes (): give a tuple of whole numbers, such as (3, 1)"),
        (("A", "A"), "sizes 'A': give a tuple of whole numbers, such as (3, 1)"),
        (("A", (3, 0)), "size 0: give a whole number, 1 or more"),
        (("A", (3, 0.5)), "size 0.5: give a whole number, 1 or more"),
    ):
        assert refusal(SizedSkew, *given) == sentence


def test_what_does_not_fit_is_refused(labelled):
    for sizes, train, test, words in (
        ((1, 1000), [100] * 10, [10] * 10, "leaves client 0 of 2 without training images of"),
        ((1,), [100] * 10, [9] * 10, "leaves client 0 of 2 without test images"),
        ((1,), [100] * 2, [50] * 2, "distribution 'A' is made for 10 classes, dataset 'made' h"),
    ):
        made = labelled(train, test, classes=len(train))
        assert words in refusal(partitions.make, SizedSkew("A", sizes), made, 2)
