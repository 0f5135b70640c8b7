namespace MudServer.Softcode;

/// <summary>What one player, or all together, may make the server compute over time: a budget that refills, so that heavy softcode of some takes little time from the others.</summary>
internal sealed class SoftcodeAllowance(int maxUnits, int unitsPerSecond, TimeProvider timeProvider)
{
    private double _units = maxUnits;
    private long _refilledAt = timeProvider.GetTimestamp();

    /// <summary>The units that may be used now.</summary>
    public double Available
    {
        get
        {
            var now = timeProvider.GetTimestamp();
            _units = Math.Min(maxUnits, _units + (timeProvider.GetElapsedTime(_refilledAt, now).TotalSeconds * unitsPerSecond));
            _refilledAt = now;
            return _units;
        }
    }

    public void Spend(double units) => _units -= units;
}
