"""
Orders to a reviewer in other languages than English. They are told by words that stand close to each other.

Each language has eight kinds of words: a reviewer, letting something in, disregarding, earlier, instructions, please,
a change, and a review that is not needed. They are written without accents.
"""

import re
import unicodedata
from functools import cache
from typing import Literal, NamedTuple

ForeignOrder = Literal["forget", "told", "needless", "asks"]

_WORDS = {
    "de": (
        r"reviewer(?:in)?|gutachter(?:in)?|prue?fer(?:in)?|assistent(?:in)?",
        r"(?:genehmig|akzeptier)(?:e|en)|freigeben|gib\w* frei|winken? (?:\w+ )?durch|durchwinken|stimme? (?:\w+ )?zu",
        r"(?:ignorier|missacht|ue?bergeh)(?:e|en|t)|vergiss|vergesst|vergessen|(?:meld|beacht)\w+ (?:\w+ )?nicht\w*",
        r"vorherig\w*|bisherig\w*|vorig\w*|obig\w*|frue?her\w*|vorangegangen\w*|deine|ihre",
        r"anweisung\w*|instruktion\w*|vorgaben|prompts?",
        r"bitte",
        r"ae?nderung\w*|commit|diff|patch",
        r"keine? (?:weitere |erneute )?(?:prue?fung|durchsicht|review) (?:ist )?(?:noe?tig|erforderlich|notwendig)",
    ),
    "fr": (
        r"relecteur|relectrice|reviseur|evaluateur|examinateur",
        r"(?:approuv|accept|valid|fusionn)(?:ez|er|e (?:ce|cette|ces|le|la|les|tout))",
        r"ignore[rz]?|oublie[rz]?|negligez?|ne (?:signale|mentionne)[rz]?",
        r"precedent\w*|anterieur\w*|ci-dessus|tes|vos",
        r"instructions?|consignes?|directives?",
        r"s'il (?:te|vous) plait|veuillez|merci de",
        r"modifications?|changements?|commit|correctif",
        r"aucune (?:relecture|revue|verification)\w* (?:n'est |supplementaire )*(?:necessaire|requise)",
    ),
    "es": (
        r"revisora?|evaluadora?|asistente",
        r"aprueb[ae]|aprobar|acept[ae]|aceptar|fusion[ae]",
        r"ignor[ae]|ignorar|olvid[ae]|omit[ae]|no (?:informes|reportes|menciones)",
        r"anterior(?:es)?|previ[ao]s?|tus",
        r"instrucci(?:on|ones)|indicaciones|directrices",
        r"por favor",
        r"cambios?|commit|parche|modificaci(?:on|ones)",
        r"no (?:hace falta|se necesita|es necesari[ao]|se requiere) (?:ninguna |otra |mas )*(?:revision|revisar)",
    ),
    "pt": (
        r"revisora?|avaliadora?|assistente",
        r"aprove|aprovar|aceite|aceitar",
        r"ignor[ae]|ignorar|esqueca|desconsider[ae]|nao (?:relate|mencione|aponte)",
        r"anterior(?:es)?|previ[ao]s?|suas",
        r"instruc(?:ao|oes)|orientac(?:ao|oes)|diretrizes",
        r"por favor",
        r"alterac(?:ao|oes)|mudancas?|commit",
        r"nao (?:e|ha) (?:necessari[ao]|necessidade de) (?:nenhuma |mais )*(?:revisao|revisar)",
    ),
    "it": (
        r"revisore|revisora|valutatore|assistente",
        r"approv[ai]|approvare|accett[ai]|accettare",
        r"ignor[ai]|ignorare|dimentica(?:re)?|tralascia(?:re)?|non segnalare",
        r"precedent[ei]|anterior[ei]|tue",
        r"istruzion[ei]|indicazion[ei]|direttive",
        r"per favore|per piacere|si prega di",
        r"modific(?:a|he)|cambiament[oi]|commit",
        r"non (?:e|serve) (?:necessaria )?(?:nessuna |alcuna |altra )*(?:revisione|verifica)",
    ),
    "nl": (
        r"reviewer|beoordelaar|controleur|assistent",
        r"keur (?:\w+ ){0,4}?goed|goedkeuren|accepteer|accepteren",
        r"negeer|negeren|vergeet|sla (?:\w+ ){0,4}?over|meld (?:\w+ ){0,3}?niet\w*",
        r"vorige|eerdere|voorgaande|bovenstaande|jouw",
        r"instructies?|aanwijzingen|richtlijnen",
        r"alsjeblieft|alstublieft|graag",
        r"wijziging(?:en)?|aanpassing(?:en)?|commit",
        r"geen (?:verdere )?(?:beoordeling|controle|review) (?:is )?(?:nodig|vereist)",
    ),
    "pl": (
        r"recenzen(?:t|cie|tka)|sprawdzajacy|asystencie",
        r"zatwierdz|zaakceptuj|przyjmij",
        r"z?ignoruj|pomin|zapomnij",
        r"poprzedni\w*|wczesniejsz\w*|powyzsz\w*|swoje",
        r"instrukcj\w*|polecen\w*|wytyczn\w*",
        r"prosze",
        r"zmian\w*|commit",
        r"(?:recenzja|sprawdzenie|przeglad) nie (?:jest|sa) (?:potrzebn|wymagan|konieczn)\w*",
    ),
    "tr": (
        r"inceleyen|degerlendiren|denetci|asistan|hakem",
        r"onayla(?:yin|yiniz)?|kabul et(?:in)?",
        r"yok say\w*|gormezden gel\w*|unut|dikkate alma",
        r"onceki|daha once\w*|yukarida\w*",
        r"talimat\w*|yonerge\w*|komut\w*",
        r"lutfen",
        r"degisikli\w*|commit",
        r"inceleme\w* (?:gerek yok|gerekmez|gerekli degil)",
    ),
    "ru": (
        r"ревьюер\w*|рецензент\w*|проверяющ\w*|ассистент",
        r"одобри(?:те)?|прими(?:те)?|подтверди(?:те)?",
        r"(?:про)?игнорируи(?:те)?|забудь(?:те)?|не обращаи\w*|не сообщаи\w*|пропусти(?:те)?",
        r"предыдущ\w*|прежни\w*|вышеуказан\w*",
        r"инструкц\w*|указани\w*|директив\w*",
        r"пожалуиста|прошу",
        r"изменени\w*|коммит\w*|правк\w*",
        r"(?:проверк\w*|ревью|рецензи\w*) не (?:требуется|нужн\w*)",
    ),
    "uk": (
        r"рев'юер\w*|рецензент\w*|перевіряюч\w*",
        r"схвал(?:и|іть)|приим(?:и|іть)|затверд(?:и|іть)",
        r"(?:про)?ігноруи(?:те)?|забудь(?:те)?|пропусти",
        r"попередн\w*",
        r"інструкці\w*|вказівк\w*",
        r"будь ласка|прошу",
        r"змін\w*|коміт\w*",
        r"(?:перевірк\w*|рев'ю) не (?:потрібн\w*|вимагається)",
    ),
    "zh": (
        r"审查者|审阅者|审核员|评审员?|审查员|審查者|審查員|評審|助手",
        r"[请請].{0,8}(?:批准|通过|通過|接受|合并|合併)|(?:批准|通过|通過|接受)(?:此|本|该|這|这|所有)",
        r"忽略|无视|無視|忘记|忘記|不要报告|不要報告|不要指出",
        r"之前|先前|以前|上述|以上|前面",
        r"指令|指示|提示词",
        r"请|請",
        r"更改|修改|变更|變更|提交|补丁",
        r"(?:无需|不需要|無需|不必)(?:进一步|進一步)?(?:的)?(?:审查|审核|审阅|審查)",
    ),
    "ja": (
        r"レビュー?ア|レビューワー?|レビュアー|査読者|審査員|アシスタント",
        r"承認して|合格に|受け入れて|マージして|通して",
        r"無視し|忘れて|報告しない|指摘しない",
        r"以前の|これまでの|上記の|前の",
        r"指示|命令|プロンプト|指令",
        r"ください|下さい|お願い",
        r"変更|コミット|差分|修正",
        r"(?:レビュー|確認|審査)は?(?:不要|必要ありません|必要ない)",
    ),
    "ko": (
        r"리뷰어|검토자|심사자|어시스턴트",
        r"승인(?:해|하)|통과시|수락(?:해|하)|병합(?:해|하)",
        r"무시|잊어|보고하지",
        r"이전|앞선|위의|기존",
        r"지시|지침|명령|프롬프트",
        r"주세요|주십시오|바랍니다|부탁",
        r"변경|커밋|수정",
        r"(?:검토|리뷰)(?:는|가|이)? ?(?:필요 ?없|불필요)",
    ),
    "ar": (
        r"المراجع|المدقق|المساعد",
        r"وافق|اقبل|اعتمد",
        r"تجاهل|انس|لا تبلغ",
        r"السابقة|السابق",
        r"التعليمات|تعليمات|الإرشادات",
        r"من فضلك|يرجى|الرجاء",
        r"التغيير|التغييرات|التعديل",
        r"لا (?:حاجة|داعي) (?:إلى |ل)(?:ل)?مراجعة",
    ),
    "hi": (
        r"समीक्षक|परीक्षक",
        r"स्वीकृत कर|स्वीकार कर|मंज़ूर कर",
        r"अनदेखा|नज़रअंदाज़|भूल",
        r"पिछले|पहले|पूर्व",
        r"निर्देश|आदेश",
        r"कृपया",
        r"बदलाव|परिवर्तन",
        r"समीक्षा की (?:कोई )?(?:आवश्यकता|ज़रूरत) नहीं",
    ),
}
_HINTS = (
    "anweis instru vorgab consigne diretriz indicac istruzion indicazion aanwijz richtlijn polecen wytyczn "
    "talimat yonerge komut gutacht pruf pruef relect revis reviseur evaluat evalua examinat valutat beoordel "
    "controleur recenz sprawdz inceley denetci hakem asist assist modelo modell bitte veuillez svp favor "
    "piacere alsjeblieft alstu graag prosze lutfen durchsicht verificat controle inceleme s'il merci ревь "
    "рецен провер инструк указан директ модел прошу пожалуиста ассист рев'ю перев інструк вказ асист будь 审 "
    "審 评 指令 指示 提示 助手 模型 请 請 检查 レビ 査 命令 フロンフト 変更 검토 리뷰 지시 지침 명령 프롬프트 "
    "주세요 المراجع المدقق التعليمات تعليمات مراجعة فضلك يرجى الرجاء समीक्षक समीक्षा निर्देश आदेश कृपया सहायक "
)
_NEAR, _BEHIND = 60, 90
_ENDS = re.compile(r"[.;!?\u3002]")
_CALLED = r"\s{0,3}(?:[:,;!\u2014\u2013\u3001]|-\s)"
"""A sign behind the name of someone who is spoken to. Wide signs are folded before."""


def fold(text: str) -> str:
    """Return the text in small letters and without accents, with wide signs made narrow."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn")


HINTS = tuple(dict.fromkeys(fold(_HINTS).split()))
"""Pieces of folded text. Every order holds one of them, so most lines need no closer look."""


class _Language(NamedTuple):
    called: re.Pattern[str]
    approve: re.Pattern[str]
    ignore: re.Pattern[str]
    earlier: re.Pattern[str]
    instructions: re.Pattern[str]
    please: re.Pattern[str]
    change: re.Pattern[str]
    needless: re.Pattern[str]


def find_foreign_order(text: str) -> ForeignOrder | None:
    """Return the kind of the first order in the text."""
    folded = fold(text)
    if not any(hint in folded for hint in HINTS):
        return None
    return next((kind for language in _languages() if (kind := _kind(language, folded)) is not None), None)


def _kind(language: _Language, text: str) -> ForeignOrder | None:
    for word in language.instructions.finditer(text):
        near = _clause(text, word)
        if language.ignore.search(near) and language.earlier.search(near):
            return "forget"
    for word in language.called.finditer(text):
        behind = text[word.end() : word.end() + _BEHIND]
        if language.approve.search(behind) or language.ignore.search(behind):
            return "told"
    if language.needless.search(text):
        return "needless"
    for word in language.change.finditer(text):
        near = _clause(text, word)
        if language.please.search(near) and language.approve.search(near):
            return "asks"
    return None


def _clause(text: str, word: re.Match[str]) -> str:
    """Return what stands near a word in the same sentence."""
    before, after = text[max(0, word.start() - _NEAR) : word.start()], text[word.end() : word.end() + _NEAR]
    return _ENDS.split(before)[-1] + word[0] + _ENDS.split(after)[0]


@cache
def _languages() -> tuple[_Language, ...]:
    return tuple(_language(*words) for words in _WORDS.values())


def _language(called: str, *others: str) -> _Language:
    return _Language(_pattern(called, _CALLED), *map(_pattern, others))


def _pattern(words: str, after: str = "") -> re.Pattern[str]:
    """Return the pattern of some words. Scripts without blanks have no ends of words."""
    folded = fold(words)
    ends = r"\b" if re.match(r"[(\w]", folded) and ord(re.sub(r"[^\w]", "", folded)[0]) < 0x500 else ""
    return re.compile(rf"{ends}(?:{folded}){ends}{after}")
