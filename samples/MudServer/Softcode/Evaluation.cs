using System.Text;

namespace MudServer.Softcode;

/// <summary>The state that the expressions of one line of input share: the acting player, the current loops, the budget.</summary>
internal sealed class Evaluation(
    SoftcodeObject enactor, ISoftcodeWorld world, SoftcodeBudget budget, Random random, TimeProvider timeProvider)
{
    private readonly List<SoftcodeLoop> _loops = [];
    private readonly Stack<StringBuilder> _builders = new();

    public SoftcodeObject Enactor { get; } = enactor;

    public string EnactorReference { get; } = enactor.Reference;

    public ISoftcodeWorld World { get; } = world;

    public SoftcodeBudget Budget { get; } = budget;

    public Random Random { get; } = random;

    public TimeProvider TimeProvider { get; } = timeProvider;

    public bool TryGetLoop(int level, out SoftcodeLoop loop)
    {
        var found = level >= 0 && level < _loops.Count;
        loop = found ? _loops[^(level + 1)] : null!;
        return found;
    }

    public SoftcodeLoop BeginLoop()
    {
        Budget.Enter();
        var loop = new SoftcodeLoop();
        _loops.Add(loop);
        return loop;
    }

    public void EndLoop()
    {
        _loops.RemoveAt(_loops.Count - 1);
        Budget.Leave();
    }

    public void Append(StringBuilder output, ReadOnlySpan<char> text)
    {
        Budget.CheckLength((long)output.Length + text.Length);
        Budget.Spend(text.Length);
        Budget.Work(1);
        output.Append(text);
    }

    /// <summary>Appends a text many times.</summary>
    public void Append(StringBuilder output, string text, int count)
    {
        Budget.CheckLength(output.Length + ((long)count * text.Length));
        Budget.Spend(count * text.Length);
        Budget.Work(count / 4);
        if (text.Length == 1)
            output.Append(text[0], count);
        else
            output.Insert(output.Length, text, count);
    }

    public string Evaluate(Expression expression)
    {
        var builder = _builders.Count > 0 ? _builders.Pop() : new StringBuilder();
        expression.Append(this, builder);
        var text = builder.ToString();
        builder.Clear();
        _builders.Push(builder);
        return text;
    }
}
