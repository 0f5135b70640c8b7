using System.Text;

namespace MudServer.Softcode;

/// <summary>Collects the parts of one run of text while it is parsed.</summary>
internal sealed class ExpressionBuilder
{
    private readonly StringBuilder _literal = new();
    private readonly List<Expression> _parts = [];
    private bool _isQuoted;

    /// <summary>The word that the run consists of so far, if it may be a function's name; otherwise null.</summary>
    public string? FunctionName
    {
        get
        {
            if (_parts.Count > 0 || _isQuoted)
                return null;
            var word = _literal.ToString().TrimStart();
            var isName = word.Length > 0 && char.IsAsciiLetter(word[0]) && word.All(letter => char.IsAsciiLetterOrDigit(letter) || letter == '_');
            return isName ? word : null;
        }
    }

    public void Add(char letter) => _literal.Append(letter);

    public void Add(string text) => _literal.Append(text);

    public void AddQuoted(char letter)
    {
        _isQuoted = true;
        _literal.Append(letter);
    }

    public void Add(Expression part)
    {
        Flush();
        _parts.Add(part);
    }

    public void ReplaceWord(Expression part)
    {
        _literal.Clear();
        _parts.Add(part);
    }

    public void ReplaceWord(string text) => _literal.Clear().Append(text);

    public void TrimStart()
    {
        if (_parts.Count > 0 || _isQuoted)
            return;
        var text = _literal.ToString().TrimStart();
        _literal.Clear().Append(text);
    }

    public void TrimEnd()
    {
        while (_literal.Length > 0 && _literal[^1] == ' ')
            _literal.Length--;
    }

    public Expression Build()
    {
        Flush();
        return _parts.Count switch
        {
            0 => LiteralExpression.Empty,
            1 => _parts[0],
            _ => new SequenceExpression(_parts),
        };
    }

    private void Flush()
    {
        if (_literal.Length == 0)
            return;
        _parts.Add(new LiteralExpression(_literal.ToString()));
        _literal.Clear();
    }
}
