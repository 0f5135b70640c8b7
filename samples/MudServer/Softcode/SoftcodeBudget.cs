namespace MudServer.Softcode;

/// <summary>Counts how much of its limits one line of input has used.</summary>
/// <param name="limits">The limits of one line.</param>
/// <param name="availableUnits">What its player may use now; all of it by default.</param>
internal sealed class SoftcodeBudget(SoftcodeLimits limits, double availableUnits = double.PositiveInfinity)
{
    private const double CharactersPerUnit = 500;
    private const double OperationsPerUnit = 20;

    // The operations of writing a message, and of sending it to one listener. 40 characters count as one operation.
    private const int OperationsPerMessage = 10;
    private const int OperationsPerListener = 10;
    private const int CharactersPerOperation = 40;

    private int _steps;
    private long _operations;
    private long _characters;
    private long _outputCharacters;
    private int _depth;

    public SoftcodeLimits Limits { get; } = limits;

    /// <summary>The units that the line has used.</summary>
    public double UsedUnits => _steps + (_operations / OperationsPerUnit) + ((_characters + _outputCharacters) / CharactersPerUnit);

    public void Step()
    {
        if (++_steps > Limits.MaxSteps)
            throw new SoftcodeLimitException($"it took more than {Limits.MaxSteps:N0} steps");
        CheckUnits();
    }

    /// <summary>Counts operations that take time whatever the length of the text: a word that is cut out of a list, or a text that is appended. Each takes some 20 ns.</summary>
    public void Work(long operations)
    {
        _operations += operations;
        CheckUnits();
    }

    public void Spend(int characters)
    {
        _characters += characters;
        if (_characters > Limits.MaxTotalCharacters)
            throw new SoftcodeLimitException($"it made more than {Limits.MaxTotalCharacters:N0} characters of text");
        CheckUnits();
    }

    /// <summary>Counts a message to the player.</summary>
    public void SpendOutput(int characters)
    {
        _operations += OperationsPerMessage;
        _outputCharacters += characters;
        if (_outputCharacters > Limits.MaxOutputCharacters)
            throw new SoftcodeLimitException($"it sent more than {Limits.MaxOutputCharacters:N0} characters");
        CheckUnits();
    }

    /// <summary>Counts a message to several players: its text is written once and sent to each.</summary>
    public void SpendOutput(int characters, int listeners)
    {
        SpendOutput(characters);
        Work((long)listeners * (OperationsPerListener + (characters / CharactersPerOperation)));
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
