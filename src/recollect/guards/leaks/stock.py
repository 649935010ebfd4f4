"""What every prompt says, and so is nobody's secret: stock phrases and plain words."""

PHRASES = (
    "You are a helpful assistant that",
    "You are a helpful AI assistant that",
    "You are a helpful, harmless and honest assistant",
    "You are a helpful and friendly assistant",
    "I am a helpful assistant that",
    "You are a large language model",
    "Be polite, friendly and concise",
    "Be helpful, polite and professional",
    "Answer the user's questions",
    "Answer the following question",
    "Let me know if you have any other questions",
    "Please let me know if you have any questions",
    "If you have any questions, feel free to ask",
    "If you do not know the answer, say that you do not know",
    "If you don't know the answer, just say that you don't know",
    "Think step by step",
    "How can I help you today?",
    "Du bist ein hilfreicher Assistent",
    "Sei freundlich und hilfsbereit",
    "Tu es un assistant utile",
    "Vous êtes un assistant utile",
    "Eres un asistente útil",
    "Sei un assistente utile",
    "Você é um assistente útil",
    "Ты полезный помощник",
    "你是一个有用的助手",
    "あなたは役に立つアシスタントです",
)
"""Phrases that may be said whether or not the instructions hold them."""

_PLAIN = (
    "a about ai all always an and answer answers any are as assistant at be bot brief but by can "
    "chatbot clear concise do does for friendly from good have he help helpful honest how i if in is "
    "it kind language like may me model must my never no not of on only or our please polite "
    "professional question questions reply respond say she short should speak talk task that the "
    "their them they this to try use user users very was we what when who will with you your"
)

PLAIN_WORDS = frozenset(_PLAIN.split())
"""Words that tell nothing about the instructions they stand in."""
