namespace MudServer.Softcode;

/// <summary>Counts what one line of input has used of its limits.</summary>
/// <param name="limits">The limits of one line.</param>
/// <param name="availableUnits">What its player may use now; all of it by default.</param>
internal sealed class SoftcodeBudget(SoftcodeLimits limits, double availableUnits = double.PositiveInfinity)
{
    private const double CharactersPerUnit = 500;

    private int _steps;
    private long _characters;
    private long _outputCharacters;
    private int _depth;

    public SoftcodeLimits Limits { get; } = limits;

    /// <summary>The units that the line has used.</summary>
    public double UsedUnits => _steps + ((_characters + _outputCharacters) / CharactersPerUnit);

    public void Step()
    {
        if (++_steps > Limits.MaxSteps)
            throw new SoftcodeLimitException($"it took more than {Limits.MaxSteps:N0} steps");
        CheckUnits();
    }

    public void Spend(int characters)
    {
        _characters += characters;
        if (_characters > Limits.MaxTotalCharacters)
            throw new SoftcodeLimitException($"it made more than {Limits.MaxTotalCharacters:N0} characters of text");
        CheckUnits();
    }

    public void SpendOutput(int characters)
    {
        _outputCharacters += characters;
        if (_outputCharacters > Limits.MaxOutputCharacters)
            throw new SoftcodeLimitException($"it sent more than {Limits.MaxOutputCharacters:N0} characters");
        CheckUnits();
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

    private void CheckUnits()
    {
        if (UsedUnits > availableUnits)
            throw new SoftcodeLimitException("it took more than the island computes for one player now; wait a moment");
    }
}
