"""Shelf labels and parcel stickers."""
from typing import List, Union

from inventory.models import Item
from inventory.money import format_amount

def shelf_label(item: Item, width: int=32) -> str:
    price = format_amount( item.price )
    return '%s | %s' % ( item.name[:width-len(price)-3], price )

def labels(items: List[Item]) -> List[str]:
    return [ shelf_label(item) for item in items ]

def barcode_text(number: Union[int, str]) -> str:
    """An EAN-8 as it is printed: seven digits and their check digit."""
    digits = [ int(c) for c in ( '%07d' % int(number) ) ]
    odd, even = sum( digits[0::2] ), sum( digits[1::2] )
    return '%s%d' % ( ''.join( str(d) for d in digits ), ( 10 - ( odd*3 + even ) % 10 ) % 10 )
