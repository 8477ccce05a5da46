"""Sentences in many languages and scripts, written for these tests: the raw material of tokenizer.py and
embeddings.py. Not a phrase book: what matters is that each script, its marks and its punctuation occur in real words.
"""

ENGLISH = """\
The library opens at nine and closes at six.
A small boat crossed the lake before the storm arrived.
She measured the flour twice and the sugar only once.
Nobody had told the gardener about the frost.
Trains to the coast leave every forty minutes on weekdays.
The committee postponed its decision until the budget is known.
Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.
He tuned the old piano by ear and played until midnight.
Our neighbours grow tomatoes, beans and far too much zucchini.
The bridge was closed after engineers found cracks in two of its piers.
A compiler translates a program; an interpreter runs it.
The cat slept on the warm bonnet of the delivery van.
Vaccines train the immune system without causing the disease.
It rained for eleven days, and the river left its bed.
The museum bought a letter that the painter never sent.
Interest rates rose by a quarter of a percentage point.
Please bring your own cup to the meeting.
The goalkeeper saved two penalties and still lost the match.
Basalt cools quickly; granite takes its time.
My grandmother's recipe says "enough butter" and nothing else.
How do I reset the password of my account?
What time does the last bus leave from the airport?
Why is the sky blue at noon and red in the evening?
Is there a pharmacy near the central station?
Could you repeat the last sentence, please?
The matrix is symmetric, so its eigenvalues are real.
Gradient descent with a large step size diverges.
We split the data into training, validation and test sets.
An octopus has three hearts and blue blood.
The moon pulls the oceans, and the tides follow it around.
The parcel was returned because the address was incomplete.
Bees tell each other where to find flowers by dancing.
The orchestra rehearsed the slow movement three times.
Prices of wheat fell after a good harvest in the south.
The court ruled that the contract had never been valid.
A glacier moves a few metres a year, grinding rock to flour.
They repaired the roof with slate from the old church.
This film is too long, but its last ten minutes are superb.
The restaurant was loud, the soup was cold, and we will not return.
I love this phone: the battery lasts for three days!
The battery of this phone lasts for three days, which I love.
The new update broke the camera, and support does not answer.
Volcanic ash grounded all flights over the northern islands.
The suspect denied that he had been near the warehouse.
In 1969 two people walked on the Moon for the first time.
The recipe serves four; double it for a party.
A good hash function spreads its inputs evenly.
The server returned error 503 and then recovered by itself.
Cats are smaller than most dogs.
Most dogs are larger than cats.
The stock market closed slightly higher on Friday.
Antibiotics do not work against viruses.
The mayor promised cheaper housing and better buses.
An earthquake of magnitude 6.1 shook the coast at dawn.
Children learn a second language faster than adults do.
The violinist broke a string in the middle of the concerto.
Fold the paper along the dotted line and glue the edges.
The lighthouse has been automatic since the keeper retired.
Salt lowers the freezing point of water.
He apologised, but not to the person whom he had offended."""

OTHERS = {
    "german": """\
Die Bibliothek öffnet um neun und schließt um sechs.
Übermorgen fährt der Zug nach Köln über Düsseldorf.
Der Fußballplatz war nach dem Gewitter völlig überschwemmt.
ÄRGERLICH: DIE STRASSE IST GESPERRT, GROẞE UMLEITUNG!
Donaudampfschifffahrtsgesellschaftskapitänsmützen sind selten geworden.""",
    "french": """\
La bibliothèque ouvre à neuf heures et ferme à dix-huit heures.
Où est passée la clé de l'appartement ? Je l'avais laissée là-bas…
Cet œuf à la coque coûte 2,50 € au café d'à côté.
« Ça va ? » demanda-t-elle ; il haussa les épaules.
L'été dernier, nous avons navigué jusqu'à l'île de Ré.""",
    "spanish": """\
La biblioteca abre a las nueve y cierra a las seis.
¿Dónde está la estación más cercana? ¡No la encuentro!
El niño comió una piña y dos melocotones en la cocina.
Mañana lloverá en toda la costa, según el pronóstico.""",
    "portuguese": """\
A biblioteca abre às nove e fecha às dezoito.
Não há pão fresco na padaria depois das dez da manhã.
As ações caíram três por cento após o anúncio da fusão.""",
    "italian": """\
La biblioteca apre alle nove e chiude alle diciotto.
Perché la città è così silenziosa il lunedì mattina?
L'acqua bolle a cento gradi, ma non in cima al Monte Bianco.""",
    "dutch": """\
De bibliotheek gaat om negen uur open en sluit om zes uur.
Het ijs in de gracht was te dun om op te schaatsen.
Hij zei: 'Het is 's ochtends vroeg al druk op de fietspaden.'""",
    "swedish": """\
Biblioteket öppnar klockan nio och stänger klockan sex.
Älgen stod mitt på vägen och vägrade att gå åt sidan.""",
    "danish": """\
Biblioteket åbner klokken ni og lukker klokken seks.
Rødgrød med fløde smager bedst om sommeren på øen Ærø.""",
    "icelandic": """\
Bókasafnið opnar klukkan níu og lokar klukkan sex.
Það er mjög hvasst í dag og þoka yfir öllum firðinum.""",
    "finnish": """\
Kirjasto avataan yhdeksältä ja suljetaan kuudelta.
Järven jää kantoi vasta tammikuun lopulla, pyöräilijätkin uskalsivat sille.""",
    "estonian": """\
Raamatukogu avatakse kell üheksa ja suletakse kell kuus.
Jäääärne tee oli libe, kuid õnneks sõitsime aeglaselt.""",
    "polish": """\
Biblioteka jest czynna od dziewiątej do osiemnastej.
Zażółć gęślą jaźń, powiedział chrząszcz w Szczebrzeszynie.
Pociąg do Łodzi odjeżdża z peronu trzeciego.""",
    "czech": """\
Knihovna se otevírá v devět a zavírá v šest.
Příliš žluťoučký kůň úpěl ďábelské ódy v Třeboni.""",
    "hungarian": """\
A könyvtár kilenckor nyit és hatkor zár.
Árvíztűrő tükörfúrógépet vettünk a győri vásárban.""",
    "romanian": """\
Biblioteca se deschide la ora nouă și se închide la ora șase.
Țăranii au strâns grâul înainte de ploaie, în județul Brașov.""",
    "turkish": """\
Kütüphane saat dokuzda açılıyor ve altıda kapanıyor.
İSTANBUL'DA IŞIKLAR SÖNDÜ; ığdır'da ise kar yağıyor.
Çiğ köfteyi çok acılı yapmışsın, ağzım yandı!""",
    "vietnamese": """\
Thư viện mở cửa lúc chín giờ và đóng cửa lúc sáu giờ.
Tiếng Việt có sáu thanh điệu: ngang, huyền, sắc, hỏi, ngã, nặng.
Phở bò Hà Nội ngon nhất là ăn vào buổi sáng sớm.""",
    "irish": """\
Osclaíonn an leabharlann ar a naoi agus dúnann sí ar a sé.
Tá an fharraige ciúin inniu, ach bhí stoirm ann aréir.""",
    "welsh": """\
Mae'r llyfrgell yn agor am naw ac yn cau am chwech.
Roedd y tŷ ar lan y môr yn wag drwy'r gaeaf.""",
    "latvian": """\
Bibliotēka tiek atvērta deviņos un slēgta sešos.
Ķēniņš ēda šķiņķi un dzēra rūgušpienu.""",
    "lithuanian": """\
Biblioteka atidaroma devintą ir uždaroma šeštą valandą.
Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą.""",
    "yoruba": """\
Ilé ìkàwé máa ń ṣí ní agogo mẹ́sàn-án, ó sì máa ń pa ní agogo mẹ́fà.""",
    "hausa": """\
Ɗakin karatu yana buɗewa da ƙarfe tara na safe.""",
    "swahili": """\
Maktaba inafunguliwa saa tatu asubuhi na kufungwa saa kumi na mbili jioni.""",
    "esperanto": """\
La biblioteko malfermiĝas je la naŭa kaj fermiĝas je la sesa.
Ĉiuj ŝafoj de la ĵaŭda bazaro estis venditaj ĝis tagmezo.""",
    "greek": """\
Η βιβλιοθήκη ανοίγει στις εννέα και κλείνει στις έξι.
Ο ΟΔΥΣΣΕΑΣ γύρισε στην Ιθάκη ύστερα από είκοσι χρόνια.
Ἐν ἀρχῇ ἦν ὁ λόγος, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν.
Τι ώρα φεύγει το πλοίο; Ρώτησε τον καπετάνιο.""",
    "russian": """\
Библиотека открывается в девять и закрывается в шесть.
Съешь ещё этих мягких французских булок, да выпей чаю.
Поезд из Нижнего Новгорода опоздал на сорок минут.
ВНИМАНИЕ! Двери закрываются, следующая станция — «Ёлки».""",
    "ukrainian": """\
Бібліотека відчиняється о дев'ятій і зачиняється о шостій.
Ґанок старої хати заріс плющем, і їжак оселився під ним.""",
    "bulgarian": """\
Библиотеката отваря в девет и затваря в шест часа.
Жълтата дюля беше щастлива, че пухът й цъфна.""",
    "serbian": """\
Библиотека се отвара у девет, а затвара у шест сати.
Љубазни фењерџија чађавог лица хоће да ми покаже штос.""",
    "kazakh": """\
Кітапхана сағат тоғызда ашылып, алтыда жабылады.
Әже немересіне қызық ертегі айтып берді.""",
    "mongolian": """\
Номын сан есөн цагт нээж, зургаан цагт хаадаг.
Өвөл морьд цасан доорх өвсийг ухаж иддэг.""",
    "georgian": """\
ბიბლიოთეკა იხსნება ცხრა საათზე და იკეტება ექვსზე.
მთაში უკვე თოვს, ზღვაზე კი ჯერ კიდევ ბანაობენ.
ᲗᲑᲘᲚᲘᲡᲘ ძველი ქალაქია.""",
    "armenian": """\
Գրադարանը բացվում է ժամը իննին և փակվում վեցին։
Արարատ լեռը երևում է միայն պարզ եղանակին։""",
    "hebrew": """\
הספרייה נפתחת בתשע ונסגרת בשש.
שָׁלוֹם עֲלֵיכֶם, אָמַר הַזָּקֵן וְהִמְשִׁיךְ לָלֶכֶת.
הרכבת לתל אביב יוצאת מרציף 3 בשעה 07:45.""",
    "yiddish": """\
די ביבליאָטעק עפֿנט זיך נײַן אַזייגער און פֿאַרמאַכט זיך זעקס.""",
    "arabic": """\
تفتح المكتبة أبوابها في الساعة التاسعة وتغلق في السادسة.
هَلْ قَرَأْتَ هٰذَا الكِتَابَ مِنْ قَبْلُ؟
وصل القطار متأخرًا ٤٥ دقيقة بسبب العاصفة.
الـــســـلام عليكم، كيف حالك اليوم؟""",
    "persian": """\
کتابخانه ساعت نه باز می‌شود و ساعت شش بسته می‌شود.
گربه‌ها روی دیوار باغ خوابیده‌اند؛ باران نمی‌آید.""",
    "urdu": """\
کتب خانہ نو بجے کھلتا ہے اور چھ بجے بند ہوتا ہے۔
کیا آپ نے آج کا اخبار پڑھ لیا ہے؟""",
    "syriac": """\
ܫܠܡܐ ܥܠܝܟܘܢ، ܐܝܟܢܐ ܐܝܬܝܟܘܢ ܝܘܡܢܐ܀""",
    "hindi": """\
पुस्तकालय नौ बजे खुलता है और छह बजे बंद होता है।
क्या यह गाड़ी सीधे वाराणसी जाती है?
बच्चों ने आँगन में ४२ पतंगें उड़ाईं।""",
    "sanskrit": """\
सत्यमेव जयते नानृतं सत्येन पन्था विततो देवयानः॥""",
    "bengali": """\
গ্রন্থাগার সকাল নয়টায় খোলে এবং সন্ধ্যা ছয়টায় বন্ধ হয়।
বৃষ্টির পরে নদীর জল অনেক বেড়ে গেছে।""",
    "punjabi": """\
ਲਾਇਬ੍ਰੇਰੀ ਨੌਂ ਵਜੇ ਖੁੱਲ੍ਹਦੀ ਹੈ ਅਤੇ ਛੇ ਵਜੇ ਬੰਦ ਹੁੰਦੀ ਹੈ।""",
    "gujarati": """\
પુસ્તકાલય નવ વાગ્યે ખૂલે છે અને છ વાગ્યે બંધ થાય છે.""",
    "tamil": """\
நூலகம் ஒன்பது மணிக்குத் திறந்து ஆறு மணிக்கு மூடப்படும்.
மழை பெய்தால் நாளை பள்ளிக்கு விடுமுறை.""",
    "telugu": """\
గ్రంథాలయం తొమ్మిది గంటలకు తెరుచుకుని ఆరు గంటలకు మూసుకుంటుంది.""",
    "kannada": """\
ಗ್ರಂಥಾಲಯ ಒಂಬತ್ತು ಗಂಟೆಗೆ ತೆರೆದು ಆರು ಗಂಟೆಗೆ ಮುಚ್ಚುತ್ತದೆ.""",
    "malayalam": """\
വായനശാല ഒൻപത് മണിക്ക് തുറന്ന് ആറ് മണിക്ക് അടയ്ക്കും.""",
    "sinhala": """\
පුස්තකාලය නවයට විවෘත කර හයට වසා දමයි.""",
    "thai": """\
ห้องสมุดเปิดเก้าโมงและปิดหกโมงเย็น
วันนี้อากาศร้อนมาก ไม่อยากออกไปไหนเลย ๆ ๑๒๓""",
    "lao": """\
ຫໍສະໝຸດເປີດເວລາເກົ້າໂມງ ແລະ ປິດເວລາຫົກໂມງແລງ.""",
    "burmese": """\
စာကြည့်တိုက်ကို ကိုးနာရီတွင် ဖွင့်ပြီး ခြောက်နာရီတွင် ပိတ်သည်။""",
    "khmer": """\
បណ្ណាល័យបើកនៅម៉ោងប្រាំបួន ហើយបិទនៅម៉ោងប្រាំមួយ។""",
    "tibetan": """\
དཔེ་མཛོད་ཁང་ཆུ་ཚོད་དགུ་པར་སྒོ་འབྱེད་ཀྱི་ཡོད།""",
    "amharic": """\
ቤተ መጻሕፍቱ በዘጠኝ ሰዓት ይከፈታል፤ በስድስት ሰዓት ይዘጋል።""",
    "cherokee": """\
ᎣᏏᏲ, ᏙᎯᏧ? ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᎤᎵᎮᎵᏍᏗ.""",
    "inuktitut": """\
ᐅᖃᓕᒫᒐᖃᕐᕕᒃ ᒪᑐᐃᖓᕙᒃᑐᖅ ᐅᓪᓛᒃᑯᑦ.""",
    "chinese": """\
图书馆九点开门，六点关门。
昨天夜里下了一场大雪，今天早上路都封了。
請問去火車站怎麼走？往前走五百公尺，然後左轉。
他买了3斤苹果、2瓶水和一本叫《红楼梦》的书。""",
    "japanese": """\
図書館は九時に開き、六時に閉まります。
すみません、この電車は京都に止まりますか？
カタカナと漢字とひらがなが混ざった文章です。
ﾊﾝｶｸｶﾀｶﾅ も ガギグゲゴ も ば゙ も読めますか。""",
    "korean": """\
도서관은 아홉 시에 열고 여섯 시에 닫습니다.
내일은 비가 오니까 우산을 꼭 챙기세요!
서울에서 부산까지 KTX로 약 2시간 30분 걸립니다.""",
    "gothic": """\
𐌰𐍄𐍄𐌰 𐌿𐌽𐍃𐌰𐍂 𐌸𐌿 𐌹𐌽 𐌷𐌹𐌼𐌹𐌽𐌰𐌼""",
    "deseret": """\
𐐔𐐯𐑅𐐨𐑉𐐯𐐻 𐐢𐐯𐐻𐐲𐑉𐑆""",
}

# Emoji: single, with skin tones, joined by ZWJ, flags, keycaps, with and without variation selectors.
EMOJI = ("😀 🎉 🚀 ❤️ ❤ ☕ ☕️ 👍 👍🏽 👋🏿 🧑‍💻 👩🏾‍🔬 👨‍👩‍👧‍👦 🏳️‍🌈 🏴‍☠️ 🇩🇪 🇯🇵 🇧🇷 🏴󠁧󠁢󠁳󠁣󠁴󠁿 "
         "1️⃣ #️⃣ 🔟 ™️ © ® ♀️ 🤷🏼‍♂️ 🫠 🪿 🥹 ✨ ⚡ ♻ ☃ ☃︎ 🀄 🃏 🅰️ 🈁 ㊙️").split()

CODE = r"""
for (size_t i = 0; i < n; ++i) sum += x[i] * w[i];
if __name__ == "__main__": main(sys.argv[1:])
SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name HAVING COUNT(*) > 1;
const f = async ({ id, ...rest }) => await fetch(`/api/v2/items/${id}?q=${rest.q ?? ''}`);
fn main() -> Result<(), Box<dyn Error>> { println!("{:?}", vec![1u8; 4]); Ok(()) }
#define MAX(a, b) ((a) > (b) ? (a) : (b))
grep -rnE '^\s*(TODO|FIXME)[:(]' src/ | sort -u | awk -F: '{print $1":"$2}'
<a href="https://example.org/?q=a&amp;b=%20c#top" class='x-y_z'>link</a>
{"key": [1, 2.5e-3, null, true], "nested": {"π": "\u03c0"}}
x = np.einsum('bhqd,bhkd->bhqk', q, k) / np.sqrt(d_k)
git rebase --interactive HEAD~3 && git push --force-with-lease origin feature/x_1
\frac{\partial L}{\partial w_{ij}} = \sum_{k=1}^{N} \delta_k x_{ik}
$ curl -sSL -H "Authorization: Bearer $TOKEN" http://localhost:8080/v1/models | jq '.data[].id'
std::vector<std::unique_ptr<Node>> nodes_; // owns; see Graph::node()
0x7FFF_FFFF == 2_147_483_647 && 0b1010 != 0o12 || ~0u >> 1
C:\Users\Ana\AppData\Local\Temp\build-2024-03-01.log
/usr/lib/x86_64-linux-gnu/libm.so.6
mov rax, [rbx+rcx*8-0x10] ; load
@property\tdef size(self) -> int: ...
:wq!  %s/foo\(bar\)\?/\1baz/g
""".strip().split("\n")

ADDRESSES = """
https://www.example.com/path/to/page.html?id=42&lang=de#section-3
http://user:pass@host.example:8080/~dir/a%20b/c;v=1.2?x=1&y=2
ftp://ftp.example.org/pub/README.txt
first.last+tag@sub.example.co.uk
www.müller-straße.example/ünï/çødé
https://xn--mller-kva.example/?q=%E4%BD%A0%E5%A5%BD
doi:10.1000/182 arXiv:1706.03762v7 ISBN 978-3-16-148410-0
192.168.0.1:443 fe80::1%eth0 2001:db8::8a2e:370:7334
+49 (0)30 1234-5678 / 555-0199 ext. 12
#hashtag @mention_99 RT @someone: so_true!!!
""".strip().split("\n")

NUMBERS = """
1,234,567.89 1.234.567,89 1 234 567,89 1'234'567.89
3.14159265358979323846264338327950288419716939937510
-40 °C = -40 °F; 273.15 K; 5 µm; 12 kΩ; 50 ½ ¾ ⅓ ⅞
2024-02-29T23:59:60.000Z 29/02/24 Feb. 29th, '24 11:59pm
£12.50, €9,99, ¥1000, ₹500, ₿0.001, 10¢, $1.2bn, 30₪
1e-12 6.022e23 0x1F 1.5E+300 NaN -Inf 0.1+0.2!=0.3
x² + y³ = z⁴ ; H₂O, CO₂, Fe³⁺, ½mv², ∑ᵢ xᵢ, √2 ≈ 1.414…
Ⅷ ⅷ ④ ⑩ ⒈ ⓐ Ⓩ ❼ ㈠ ㊿ ٣٫١٤ ४२ ၁၂၃ 一二三 〇
100% ±0.5‰ 7/8 3:2 №5 §12 ¶3 1st 2nd 3rd 4th
0 00 000 0000 00000 000000000000000000000000000000
""".strip().split("\n")

PUNCTUATION = """
"Quoted", 'single', “curly”, ‘curly’, «guillemets», ‹single›, „low“, ‚low‘, 「鉤」, 『二重』
well-known state-of-the-art mother-in-law e-mail re-elect co–operate em—dash minus−sign hyphen‐true non‑breaking soft­hyphen
Wait... what?! No way!!! ¿Sí? ¡No! … ‥ ‽ ⁂ † ‡ • ‣ ⁃ ◦
(a) [b] {c} <d> ⟨e⟩ ⟦f⟧ 【g】 （全角） ｛括弧｝ ［角］
a/b\\c|d_e~f^g`h´i¨j¯k¸l
rock'n'roll don't can't it's y'all'd've o'clock O'Neill d'Artagnan
A.B.C. U.S.A. Ph.D. e.g. i.e. etc. vs. Mr. & Mrs. Smith
@#$%^&*()_+-=[]{}|;':",./<>?`~!
＠＃＄％＾＆＊（）＿＋－＝［］｛｝｜；＇：＂，．／＜＞？｀～！
→ ← ↑ ↓ ⇒ ⇔ ∀ ∃ ∈ ∉ ⊂ ∪ ∩ ∧ ∨ ¬ ∞ ∂ ∇ ∫ ∏ ≠ ≤ ≥ ≡ × ÷
█▓▒░ ─│┌┐└┘├┤ ■□▲△●○◆◇★☆ ♠♥♦♣ ♩♪♫♬ ☐☑☒ ✓✗
。、，！？；：・ー〜々〆〇〒 ؟ ، ؛ । ॥ ། ። ፣ ჻ ܀ ᙮
""".strip().split("\n")


def lines(text):
    return text.strip().split("\n")


def every_sentence():
    """(language, sentence) of all languages, English first."""
    pairs = [("english", s) for s in lines(ENGLISH)]
    return pairs + [(language, s) for language, text in OTHERS.items() for s in lines(text)]
