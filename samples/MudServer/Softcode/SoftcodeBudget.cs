namespace MudServer.Softcode;

/// <summary>Counts what one line of input has used of its limits.</summary>
internal sealed class SoftcodeBudget(SoftcodeLimits limits)
{
    private int _steps;
    private long _characters;
    private long _outputCharacters;
    private int _depth;

    public SoftcodeLimits Limits { get; } = limits;

    public void Step()
    {
        if (++_steps > Limits.MaxSteps)
            throw new SoftcodeLimitException($"it took more than {Limits.MaxSteps:N0} steps");
    }

    public void Spend(int characters)
    {
        _characters += characters;
        if (_characters > Limits.MaxTotalCharacters)
            throw new SoftcodeLimitException($"it made more than {Limits.MaxTotalCharacters:N0} characters of text");
    }

    public void SpendOutput(int characters)
    {
        _outputCharacters += characters;
        if (_outputCharacters > Limits.MaxOutputCharacters)
            throw new SoftcodeLimitException($"it sent more than {Limits.MaxOutputCharacters:N0} characters");
    }

    public void CheckLength(long characters)
    {
        if (characters > Limits.MaxTextCharacters)
            throw new SoftcodeLimitException($"a text grew longer than {Limits.MaxTextCharacters:N0} characters");
    }

    public void Enter()
    {
        if (++_depth > Limits.MaxDepth)
            throw new SoftcodeLimitException($"it was nested more than {Limits.MaxDepth} deep");
    }

    public void Leave() => _depth--;
}
