"""Reports for the morning round."""
from typing import Dict, List, Optional, Tuple

from inventory.models import Item,StockLevel


def stock_row(level: StockLevel, item: Optional[Item]=None) -> str:
    name = item.name if item is not None else '?'
    return '%s (%s): %s on hand, %s free' % ( level.sku, name, level.on_hand, level.available )

def stock_report(levels: List[StockLevel], items: Dict[str, Item]) -> List[str]:
    rows = [ stock_row( level, items.get(level.sku) ) for level in sorted(levels, key=lambda l: l.sku) ]
    rows.append( '%s items, %s pieces' % ( len(levels), sum( level.on_hand for level in levels ) ) )
    return rows

def shares(sold: Dict[str, int]) -> List[Tuple[str, str]]:
    total = sum(sold.values())
    if not total :
        return []
    ranked = sorted( sold.items(), key = lambda pair: ( -pair[1], pair[0] ) )
    return [ ( sku, '%.1f%%' % (100.0*count/total) ) for sku, count in ranked ]

def top( sold: Dict[str, int], count: int = 3 ) -> str:
    names = [ '%s (%s)' % (sku, share) for sku, share in shares(sold)[:count] ]
    return 'best sellers: %s' % ', '.join( names ) if names else 'nothing sold'
