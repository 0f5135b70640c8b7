namespace BatchKit.Broadcast.Telnet;

/// <summary>What one side of a connection does, by the Q method of RFC 1143: what was asked for is not answered, and what is so already is not answered, so that no loop can start.</summary>
/// <remarks>The server never asks to end what was agreed on, so of the method's states those that wait for such an end do not occur.</remarks>
internal sealed class OptionSide(TelnetFeatures supported)
{
    private TelnetFeatures _supported = supported;
    private TelnetFeatures _asked;

    /// <summary>What both sides agreed on.</summary>
    public TelnetFeatures Agreed { get; private set; }

    /// <summary>Notes that the server asks for a feature.</summary>
    public void Ask(TelnetFeatures feature) => _asked |= feature;

    /// <summary>Refuses a feature from here on.</summary>
    public void Forbid(TelnetFeatures feature) => _supported &= ~feature;

    /// <summary>The client says WILL or DO.</summary>
    /// <param name="feature">One feature, or none for an option that is unknown.</param>
    /// <returns>The answer: true to agree, false to refuse, null for none.</returns>
    public bool? HearYes(TelnetFeatures feature)
    {
        if ((Agreed & feature) != TelnetFeatures.None)
            return null;
        if ((_supported & feature) == TelnetFeatures.None)
            return false;
        Agreed |= feature;
        var wasAsked = (_asked & feature) != TelnetFeatures.None;
        _asked &= ~feature;
        return wasAsked ? null : true;
    }

    /// <summary>The client says WONT or DONT.</summary>
    /// <param name="feature">One feature, or none for an option that is unknown.</param>
    /// <returns>The answer: false to confirm, null for none.</returns>
    public bool? HearNo(TelnetFeatures feature)
    {
        var wasAgreed = (Agreed & feature) != TelnetFeatures.None;
        Agreed &= ~feature;
        _asked &= ~feature;
        return wasAgreed ? false : null;
    }
}
