namespace SensorHub.Measuring;

/// <summary>Tells a topic's new numbers from repeated ones. It remembers the last 64; older ones count as repeated.</summary>
internal sealed class SeenNumbers
{
    private long _highest;

    // Bit n stands for the number n below the highest.
    private ulong _seen;

    /// <summary>Adds a number.</summary>
    /// <returns>False when it was added before.</returns>
    public bool Add(long number)
    {
        if (number > _highest)
        {
            var ahead = number - _highest;
            _seen = ahead < 64 ? (_seen << (int)ahead) | 1 : 1;
            _highest = number;
            return true;
        }

        var behind = _highest - number;
        if (behind >= 64 || (_seen & (1UL << (int)behind)) != 0)
            return false;
        _seen |= 1UL << (int)behind;
        return true;
    }
}
