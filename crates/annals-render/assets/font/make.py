"""Makes the two fonts that charts are drawn with; see README.md."""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

PLAIN = (
    "U+20-7E,U+A0-17F,U+218-21B,U+2C6,U+2C7,U+2D8-2DD,U+300-304,U+306-30C,U+327,U+328,"
    "U+384-3CE,U+400-45F,U+490,U+491,U+1E9E,"
    "U+2010-2027,U+2030-203A,U+2044,U+20AC,U+20BD,U+2116,U+2122,"
    "U+2190-2195,U+2212,U+221E,U+2248,U+2260,U+2264,U+2265,U+27E8,U+27E9,U+FFFD"
)
STRONG = "U+20-7E,U+A0-FF,U+2010-2027,U+20AC,U+2212"


def make(source: Path, target: Path, characters: str) -> None:
    font = TTFont(source)
    # Figures of one width, so that numbers stand below each other without layout tables.
    swap = {}
    for record in font["GSUB"].table.FeatureList.FeatureRecord:
        if record.FeatureTag == "tnum":
            for index in record.Feature.LookupListIndex:
                for table in font["GSUB"].table.LookupList.Lookup[index].SubTable:
                    swap.update(getattr(table, "ExtSubTable", table).mapping)
    for table in font["cmap"].tables:
        for digit in range(0x30, 0x3A):
            if digit in table.cmap:
                table.cmap[digit] = swap.get(table.cmap[digit], table.cmap[digit])
    # Markers of what is hidden stand in brackets that Inter lacks; these are near.
    for table in font["cmap"].tables:
        for bracket, near in ((0x27E8, 0x2039), (0x27E9, 0x203A)):
            if near in table.cmap:
                table.cmap[bracket] = table.cmap[near]
    options = subset.Options()
    options.hinting = False
    options.layout_features = []
    options.glyph_names = False
    options.name_IDs = [0, 1, 2, 5, 13, 14]
    options.drop_tables += ["GPOS", "GSUB", "GDEF", "STAT", "DSIG", "meta", "gasp", "prep"]
    options.notdef_outline = True
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=subset.parse_unicodes(characters.replace("U+", "")))
    subsetter.subset(font)
    # The same bytes whenever it is made.
    font["head"].modified = font["head"].created
    font.recalcTimestamp = False
    font.flavor = None
    font.save(target)


if __name__ == "__main__":
    web, here = Path(sys.argv[1]), Path(__file__).parent
    make(web / "Inter-Regular.woff2", here / "Inter-Regular.ttf", PLAIN)
    make(web / "Inter-SemiBold.woff2", here / "Inter-SemiBold.ttf", STRONG)
