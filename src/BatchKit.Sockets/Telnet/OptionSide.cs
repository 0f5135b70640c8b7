namespace BatchKit.Broadcast.Telnet;

/// <summary>The options of one side of a connection, by the Q method of RFC 1143. It answers no reply to its own request, and no request for what is already agreed. This prevents endless loops.</summary>
/// <remarks>The server never asks to end an agreed option, so the method's states that wait for such an end do not occur. Never copied.</remarks>
internal struct OptionSide(TelnetFeatures supported)
{
    private TelnetFeatures _asked;

    /// <summary>The features that the server agrees to.</summary>
    public TelnetFeatures Supported { get; private set; } = supported;

    /// <summary>The features that both sides agreed to.</summary>
    public TelnetFeatures Agreed { get; private set; }

    /// <summary>Notes that the server asks for a feature.</summary>
    public void Ask(TelnetFeatures feature) => _asked |= feature;

    /// <summary>True while the server agrees to a feature.</summary>
    public readonly bool Supports(TelnetFeatures feature) => (Supported & feature) != TelnetFeatures.None;

    /// <summary>Refuses a feature from now on.</summary>
    public void Forbid(TelnetFeatures feature) => Supported &= ~feature;

    /// <summary>Handles WILL or DO.</summary>
    /// <param name="feature">One feature, or none for an unknown option.</param>
    /// <returns>The answer: true to agree, false to refuse, null for none.</returns>
    public bool? ReceiveYes(TelnetFeatures feature)
    {
        if ((Agreed & feature) != TelnetFeatures.None)
            return null;
        if ((Supported & feature) == TelnetFeatures.None)
            return false;
        Agreed |= feature;
        var wasAsked = (_asked & feature) != TelnetFeatures.None;
        _asked &= ~feature;
        return wasAsked ? null : true;
    }

    /// <summary>Handles WONT or DONT.</summary>
    /// <param name="feature">One feature, or none for an unknown option.</param>
    /// <returns>The answer: false to confirm, null for none.</returns>
    public bool? ReceiveNo(TelnetFeatures feature)
    {
        var wasAgreed = (Agreed & feature) != TelnetFeatures.None;
        Agreed &= ~feature;
        _asked &= ~feature;
        return wasAgreed ? false : null;
    }
}
