"""Chinese word lists, as regular-expression alternations and sets."""

# ruff: noqa: E501 - word lists

from __future__ import annotations

from typing import Final


def _words(text: str) -> list[str]:
    return sorted(text.split(), key=lambda word: (-len(word), word))


def _alternation(text: str) -> str:
    return "|".join(_words(text))


_SURNAMES: Final = _words(
    "欧阳 司马 上官 诸葛 东方 皇甫 尉迟 公孙 慕容 令狐 司徒 夏侯 赵 钱 孙 李 周 吴 郑 王 冯 陈 褚 卫 蒋 沈 韩 杨 朱 秦 尤 许 何 吕 施 张 孔 曹 严 华 金 魏"
    " 陶 姜 戚 谢 邹 喻 柏 水 窦 章 云 苏 潘 葛 奚 范 彭 郎 鲁 韦 昌 马 苗 凤 花 方 俞 任 袁 柳 酆 鲍 史 唐 费 廉 岑 薛 雷 贺 倪 汤 滕 殷 罗 毕 郝 邬 安 常 乐 于"
    " 时 傅 皮 卞 齐 康 伍 余 元 卜 顾 孟 平 黄 和 穆 萧 尹 姚 邵 湛 汪 祁 毛 禹 狄 米 贝 明 臧 计 伏 成 戴 谈 宋 茅 庞 熊 纪 舒 屈 项 祝 董 梁 杜 阮 蓝 闵 席 季"
    " 麻 强 贾 路 娄 危 江 童 颜 郭 梅 盛 林 刁 钟 徐 邱 骆 高 夏 蔡 田 樊 胡 凌 霍 虞 万 支 柯 管 卢 莫 经 房 裘 缪 干 解 应 宗 丁 宣 邓 郁 单 杭 洪 包 诸 左 石 崔"
    " 吉 龚 程 嵇 邢 裴 陆 荣 翁 荀 羊 惠 甄 曲 家 封 储 靳 段 富 巫 乌 焦 巴 弓 牧 山 谷 侯 宓 蓬 全 郗 班 仰 秋 仲 伊 宫 宁 仇 栾 甘 厉 祖 武 符 刘 景 詹 束 龙 叶"
    " 幸 司 韶 黎 薄 白 怀 蒲 从 鄂 索 咸 籍 赖 卓 蔺 屠 蒙 池 乔 阴 胥 苍 闻 党 翟 谭 贡 劳 姬 申 扶 冉 雍 桑 桂 牛 寿 边 燕 尚 农 温 庄 晏 柴 瞿 阎 充 慕 连 习 艾"
    " 鱼 容 向 古 易 慎 戈 廖 庾 终 衡 步 都 耿 满 弘 匡 文 寇 广 欧 沃 利 师 巩 聂 晁 敖 冷 辛 那 简 饶 曾 沙 丰 关 查 红 游 竺 权 盖 益 桓 公 肖 涂 代 佟 岳 覃 闫"
    " 付 褟 尧 禤 仝 楼 覃 苑 滑 战"
)
SURNAMES: Final = "|".join(
    # One class of all that have a single character: compiled in a third of the time of hundreds of alternatives.
    (*(name for name in _SURNAMES if len(name) > 1), f"[{''.join(name for name in _SURNAMES if len(name) == 1)}]")
)

NOT_IN_A_NAME: Final = "了我你您他她它们个这那哪谁么什啥吗呢吧啊呀哦的得地着过去来到很太最也都就还没不要想会能是有在说叫给让把被从点些种样次天起停快"
"""Characters that show that what follows 我叫 is no name."""

NOT_A_NAME: Final = _alternation(
    "外卖 滴滴 快递 出租 救护 专车 网约 闪送 跑腿 代驾 保安 警察 服务员 苦 什么 车 人 朋友 同事 高兴 方便 安全 平时 万一 单身 经常 常常 时常 明白 明天 和平 全部 全职"
    " 水瓶 白羊 金牛 双子 巨蟹 狮子 处女 天秤 天蝎 射手 摩羯 双鱼 文科 理科 应届 应该 高中 高级 高三 高二 高一 左撇子 程序 司机 独生 路人 白领 师傅 家庭 家里 都 从 于是 连 向 全 时候 干 计划 经理 管理"
)
"""Beginnings that look like a surname but start another word."""

PLACES: Final = _alternation(
    "北京 上海 天津 重庆 广州 深圳 杭州 南京 苏州 无锡 成都 武汉 西安 郑州 长沙 合肥 南昌 福州 厦门 泉州 济南 青岛 烟台 大连 沈阳 长春 哈尔滨 石家庄 太原 呼和浩特 银川"
    " 西宁 兰州 乌鲁木齐 拉萨 昆明 大理 丽江 贵阳 南宁 桂林 海口 三亚 珠海 佛山 东莞 中山 惠州 汕头 温州 宁波 绍兴 嘉兴 湖州 金华 台州 义乌 常州 南通 扬州 徐州 镇江 盐城"
    " 连云港 芜湖 洛阳 开封 宜昌 襄阳 株洲 湘潭 岳阳 绵阳 乐山 遵义 柳州 北海 潍坊 威海 淄博 临沂 唐山 保定 秦皇岛 大同 包头 鞍山 吉林 漳州 莆田 景德镇 九江 赣州 香港 澳门 台北 高雄 台中"
    " 台湾 新竹 河北 山西 辽宁 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南 广东 广西 海南 四川 贵州 云南 西藏 陕西 甘肃 青海 宁夏 新疆 内蒙古 东北"
    " 中国 美国 英国 法国 德国 日本 韩国 加拿大 澳大利亚 澳洲 新西兰 新加坡 马来西亚 泰国 越南 意大利 西班牙 葡萄牙 荷兰 瑞士 瑞典 挪威 丹麦 芬兰 俄罗斯 印度 巴西 墨西哥"
    " 纽约 洛杉矶 旧金山 西雅图 波士顿 芝加哥 伦敦 巴黎 柏林 慕尼黑 汉堡 东京 大阪 京都 首尔 多伦多 温哥华 悉尼 墨尔本 曼谷 吉隆坡 罗马 米兰 马德里 巴塞罗那 里斯本 阿姆斯特丹 苏黎世 维也纳 布拉格 莫斯科"
)

COMPANIES: Final = _alternation(
    "腾讯 阿里巴巴 阿里 百度 字节跳动 字节 华为 小米 京东 美团 网易 拼多多 滴滴 快手 哔哩哔哩 B站 携程 联想 比亚迪 宁德时代 中兴 大疆 顺丰 蔚来 理想汽车 小鹏 海尔 格力 美的 万科 微软 谷歌 苹果公司"
    " 亚马逊 特斯拉 普华永道 德勤 招商银行 工商银行 建设银行 中国银行 农业银行 国家电网 中国移动 中国电信 中国联通 中石油 中石化 新东方 学而思 喜马拉雅 得物 小红书 知乎 蚂蚁集团"
)
ORGANISATION_ENDS: Final = _alternation(
    "公司 集团 银行 医院 大学 学院 中学 小学 幼儿园 学校 研究所 研究院 设计院 出版社 报社 电视台 律所 律师事务所 事务所 工厂 酒店 餐厅 咖啡馆 咖啡店 书店 花店 工作室 图书馆 博物馆 杂志社 国企 外企"
    " 事业单位 政府 机关 券商 创业公司 药厂 车企 超市 面馆 诊所 美术馆 动物园 农场"
)

OCCUPATIONS: Final = _alternation(
    "老师 教师 教授 讲师 班主任 程序员 码农 工程师 架构师 设计师 医生 护士 药剂师 牙医 兽医 律师 法官 检察官 会计 会计师 审计师 出纳 司机 厨师 面点师 咖啡师 调酒师 销售 销售员 客服 编辑 记者 作家 自由撰稿人"
    " 翻译 导演 演员 歌手 音乐人 画家 插画师 漫画家 摄影师 建筑师 警察 消防员 军人 公务员 产品经理 项目经理 客户经理 运营经理 总经理 经理 总监 主管 店长 老板 创始人 投资人 分析师 数据分析师 研究员 科学家"
    " 咨询师 心理咨询师 顾问 理财顾问 保险代理人 中介 快递员 外卖员 保安 保洁 理发师 化妆师 美容师 健身教练 教练 导游 空姐 空乘 飞行员 农民 工人 电工 木匠 裁缝 图书管理员 社工 主播 博主 up主 策划 行政"
    " 人事 前台 助理 秘书 文员 校对 店员 服务员 个体户 自由职业者 自由职业 全职妈妈 全职爸爸 家庭主妇 程序媛 测试工程师 前端工程师 后端工程师 算法工程师 产品运营 运营 市场专员 花艺师 烘焙师 陶艺师 瑜伽老师 收银员 采购"
)

INDUSTRIES: Final = _alternation(
    "信息安全 网络安全 互联网 金融 银行 保险 证券 教育 培训 医疗 医药 房地产 建筑 制造 物流 电商 跨境电商 零售 餐饮 旅游 酒店 广告 传媒 媒体 影视 游戏 出版 法律 咨询 会计 审计 农业 能源 新能源 汽车 半导体 芯片"
    " 人工智能 软件 通信 外贸 服装 时尚 美容 公益 航空 航天 生物医药 心理咨询 翻译 新闻 设计 人力资源 数据分析 软件开发 市场营销 供应链"
)

MAJORS: Final = r"[\u4e00-\u9fffA-Za-z]{0,10}?(?:学|工程|技术|科学|设计|文学|语|管理|金融|会计|法律|艺术|新闻|建筑|医|教育|贸易|数学|物理|化学|历史|哲学|美术|音乐|计算机|软件|通信|临床|护理|财务|营销|土木|电子|生物|地理|政治|体育|信息安全|人工智能|机械|自动化|英语|中文)"

SPORTS: Final = _alternation("篮球 足球 羽毛球 乒乓球 网球 排球 台球 高尔夫 高尔夫球 棒球 保龄球 橄榄球 壁球 匹克球")

INSTRUMENTS: Final = _alternation(
    "钢琴 吉他 尤克里里 小提琴 大提琴 古筝 琵琶 二胡 笛子 长笛 萨克斯 架子鼓 贝斯 口琴 古琴 电子琴 葫芦丝"
)

EXERCISES: Final = _alternation(
    "跑步 晨跑 夜跑 慢跑 游泳 健身 瑜伽 骑车 骑行 爬山 徒步 打球 打羽毛球 打篮球 踢足球 打网球 打乒乓球 散步 冥想 举铁 跳绳 普拉提 打太极 撸铁 做瑜伽 练瑜伽 去健身房"
)

CONDITIONS: Final = _alternation(
    "糖尿病 高血压 低血压 哮喘 鼻炎 过敏性鼻炎 胃炎 胃病 慢性胃炎 抑郁症 焦虑症 失眠症 偏头痛 颈椎病 腰椎间盘突出 关节炎 痛风 湿疹 贫血 甲减 甲亢 近视 脂肪肝 高血脂 心脏病 癫痫 多动症 ADHD 乳糖不耐受 乳糖不耐 荨麻疹 干眼症 耳鸣 低血糖"
)

PERSONALITIES: Final = _alternation(
    "内向 外向 开朗 活泼 安静 慢热 敏感 乐观 悲观 急躁 随和 害羞 社恐 社牛 完美主义 细心 粗心 固执 理性 感性 直爽 温和 佛系 宅 i人 e人 I人 E人 夜猫子 早起型 路痴 拖延症 起床困难户"
)

LANGUAGES: Final = _alternation(
    "英语 日语 韩语 法语 德语 西班牙语 葡萄牙语 意大利语 俄语 阿拉伯语 泰语 越南语 粤语 闽南语 客家话 上海话 四川话 普通话 中文 英文 日文 温州话"
)

KIN: Final = {
    "老板": "boss", "领导": "boss", "上司": "boss", "老婆": "wife", "妻子": "wife", "太太": "wife", "媳妇": "wife",
    "老公": "husband", "丈夫": "husband", "爱人": "partner", "对象": "partner", "伴侣": "partner", "女朋友": "girlfriend",
    "女友": "girlfriend", "男朋友": "boyfriend", "男友": "boyfriend", "未婚妻": "fiance", "未婚夫": "fiance",
    "妈妈": "mother", "母亲": "mother", "爸爸": "father", "父亲": "father", "女儿": "daughter", "闺女": "daughter",
    "儿子": "son", "姐姐": "sister", "妹妹": "sister", "哥哥": "brother", "弟弟": "brother", "奶奶": "grandmother",
    "外婆": "grandmother", "爷爷": "grandfather", "外公": "grandfather", "室友": "roommate", "同事": "colleague",
    "闺蜜": "friend", "好朋友": "friend", "最好的朋友": "friend", "发小": "friend", "导师": "teacher", "教练": "coach",
}  # fmt: skip
"""People around the user, and the sub-topic of `relationship` that their name belongs to."""

OTHERS: Final = (
    r"(?:们|的|家|妈|爸|爷|奶|哥|姐|弟|妹|姑|舅|叔|姨|外婆|外公|朋友|好朋友|最好的朋友|同事|老板|领导|上司|老公|老婆|丈夫|妻子|太太|媳妇|爱人|对象|女儿|闺女|儿子|孩子"
    r"|男朋友|女朋友|男友|女友|未婚|室友|舍友|同学|老师|导师|教练|闺蜜|发小|邻居|父母|母亲|父亲|亲戚|客户|学生|表|堂|侄|这|那)"
)
"""What after 我 makes someone or something else the subject."""

PETS: Final = _alternation(
    "猫 猫咪 小猫 橘猫 黑猫 白猫 狸花猫 布偶猫 英短 美短 狗 小狗 狗狗 金毛 柯基 柴犬 泰迪 拉布拉多 哈士奇 边牧 萨摩耶 贵宾犬 仓鼠 兔子 鹦鹉 乌龟 金鱼 龙猫 刺猬 荷兰猪 蜥蜴"
)

FAVORITES: Final = {
    "电影": "movies", "片子": "movies", "导演": "movies", "书": "books", "小说": "books", "作家": "books", "食物": "foods",
    "菜": "foods", "水果": "foods", "美食": "foods", "甜品": "foods", "饮料": "foods", "零食": "foods", "歌手": "music",
    "歌": "music", "乐队": "music", "音乐": "music", "运动": "sports", "球类": "sports", "游戏": "games", "电视剧": "tv_shows",
    "剧": "tv_shows", "综艺": "tv_shows", "动漫": "tv_shows", "颜色": "favorite_color", "季节": "favorite_season",
    "球队": "favorite_team", "动物": "animals", "花": "flowers", "城市": "places", "地方": "places", "爱好": "hobbies",
}  # fmt: skip
"""What a favourite can be of, and the sub-topic of `interest` it belongs to."""

MOODS: Final = _alternation(
    "开心 高兴 快乐 难过 伤心 累 疲惫 焦虑 紧张 担心 生气 烦躁 烦 沮丧 孤独 抑郁 压抑 兴奋 无聊 骄傲 失望 感动 放松 害怕 迷茫 无助 郁闷 幸福 激动 低落 委屈"
)

BELONGINGS: Final = {
    "车": "car", "房": "house", "房子": "house", "电脑": "computer", "笔记本": "computer", "手机": "phone", "相机": "camera",
    "键盘": "keyboard", "自行车": "bike", "平板": "tablet", "耳机": "headphones",
}  # fmt: skip
"""Things that people name a make of, and the sub-topic of `belongings`."""

POSSESSIONS: Final = _alternation(
    "驾照 驾驶证 护照 签证 绿卡 社保 医保 房贷 车贷 车 房 房子 私家车 汽车 摩托车 电动车 自行车 教师资格证 律师证 健身卡 钢琴 吉他 相机 单反"
)
"""Things that 我有 is worth telling of; one also has time, questions and ideas."""

ABILITIES: Final = (
    _alternation(
        "游泳 开车 骑车 骑自行车 骑马 做饭 做菜 烧菜 烘焙 编程 写代码 写程序 滑雪 滑冰 滑板 冲浪 潜水 唱歌 跳舞 画画 书法 摄影 修图 剪视频 剪辑 下棋 下围棋 下象棋 打麻将"
        " 打字 理财 炒股 织毛衣 缝纫 魔方 喝酒 手语 盲文"
    )
    + rf"|[打踢](?:{SPORTS})|[弹拉吹打](?:{INSTRUMENTS})|(?:[说讲])?(?:{LANGUAGES})"
    + r"|(?:用|写)?(?:Python|Java(?:Script)?|Go|Rust|C\+\+|SQL|Excel|PS|Photoshop|CAD)"
)
"""What one can or cannot do; 我会 is more often a promise."""

PARTS_OF_TIME: Final = (
    r"(?:每天)?(?:早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|深夜|半夜|凌晨|睡前)|周末|工作日|节假日|假期|周[一二三四五六日天]|星期[一二三四五六日天]|上班时间?|上班的时候|下班后|下班以后|开会的时候"
    r"|(?:早上|上午|下午|晚上)?[一二三四五六七八九十\d]{1,2}点(?:半)?(?:以后|之后|以前|之前|后|前)"
)
"""Times of the day and the week."""

TOOLS: Final = _alternation(
    "微信 企业微信 钉钉 飞书 QQ 邮件 腾讯会议 记事本 备忘录 印象笔记 有道云笔记 语雀 石墨文档 金山文档 WPS 思维导图 剪映 美图秀秀 小红书 淘宝 支付宝 高德地图 百度地图 网易云音乐"
)
"""Software whose Chinese name is no other word; names in Latin letters speak for themselves."""

ROUTINES: Final = _alternation(
    "起床 睡觉 熬夜 加班 出差 午睡 午休 早起 晚睡 早睡 失眠 赖床 喝咖啡 喝茶 喝奶茶 喝酒 抽烟 吃早餐 吃早饭 吃夜宵 吃外卖 点外卖 做饭 遛狗 冥想 写日记 记账 看书 阅读 看新闻 坐地铁 开车上班 骑车上班 健身 跑步"
    " 运动 锻炼 散步 看电影 逛街 旅行 旅游 吃辣 吃甜食 迟到 吃早点 泡脚 练字 追剧 打游戏"
)
"""What people do regularly."""

TOPICS: Final = _alternation(
    "天气 气温 旅游 旅行 自驾 酒店 机票 高铁 地铁 餐厅 美食 菜谱 做饭 烘焙 咖啡 奶茶 茶叶 火锅 烧烤 早餐 减肥 健身 跑步 瑜伽 游泳 爬山 徒步 骑行 睡眠 失眠 养生 健康 医院 疫苗 感冒 体检 电影 电视剧 综艺 动漫"
    " 音乐 演唱会 歌手 小说 读书 诗歌 书法 绘画 摄影 手工 舞蹈 戏曲 话剧 展览 博物馆 游戏 直播 短视频 穿搭 护肤 化妆 购物 快递 园艺 养花 宠物 环保 政治 历史 哲学 心理学 科学 物理 化学 生物 数学 经济 理财 股票"
    " 基金 保险 贷款 房贷 租房 买房 装修 家具 汽车 单车 家庭 孩子 育儿 婚礼 婚姻 生日 春节 中秋 友情 恋爱 爱情 相亲 分手 工作 求职 面试 简历 加班 升职 薪资 工资 创业 会议 项目 营销 编程 代码 软件 数据库 机器学习"
    " 人工智能 大数据 电脑 手机 网络 学校 大学 高考 考研 考试 作业 论文 留学 英语 压力 焦虑 抑郁 冥想 志愿者 污染 能源 航天 机器人"
)
"""Common nouns that say what a conversation is about."""
