"""The picture of pFedLA's Table 3, with an alt text made from what is drawn."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    pass
